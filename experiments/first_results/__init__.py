"""Lines and seconds to a first result, beside the tools that people use."""
