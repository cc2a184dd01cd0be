"""Random fields by four trainers, each with what it proves of its end point."""
