"""Following the futures of collectives: what holds one, where its value is read, and the list that it stands for."""
