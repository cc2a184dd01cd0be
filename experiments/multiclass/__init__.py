"""The multiclass machines of chapter 2, all of them."""
