"""What a file shows of the scales of a scaled matrix product: their shapes, and the recipe that follows from them."""
