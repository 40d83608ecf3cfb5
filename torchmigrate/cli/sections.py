"""Help with its options in sections, so that a long list can be read."""

from __future__ import annotations

import click

SECTIONS = {
    "What to do": (
        *("dry_run", "yes", "yes_safe", "interactive", "unsafe", "max_changes", "from_patch"),
        *("allow_dirty", "commit"),
    ),
    "Rules": ("select", "ignore", "min_torch", "load"),
    "Files": (
        *(
            "include",
            "exclude",
            "only_projects",
            "only_owners",
            "files_from",
            "changed_since",
            "include_stubs",
            "include_generated",
            "max_size",
        ),
        *("no_gitignore", "no_git", "stdin_filename"),
    ),
    "Output": (
        *("form", "output", "patch_out", "split", "context", "stat", "name_only", "color"),
        *("quiet", "verbose", "exit_zero"),
    ),
    "Run": ("jobs", "timeout", "no_cache", "config_file", "isolated"),
}


class Command(click.Command):
    """A command that lists its options by section; those that belong to none come last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            param.name: record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None
        }
        for title, names in SECTIONS.items():
            listed = [records.pop(name) for name in names if name in records]
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed, col_max=28)
        if records:
            with formatter.section("Other"):
                formatter.write_dl(list(records.values()), col_max=28)
