"""Class descriptions and similarities with few examples a class, and with none."""
