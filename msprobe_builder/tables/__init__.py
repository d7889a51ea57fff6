"""The comparison as spreadsheets: one row per value, as the document of that comparison has it."""
