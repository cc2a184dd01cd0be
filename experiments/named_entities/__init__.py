"""Tables 2 and 3: named entities; the whole corpus, and files of your own."""
