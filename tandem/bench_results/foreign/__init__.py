"""Results of other load generators: one module for each tool, which reads only the fields that the report shows."""
