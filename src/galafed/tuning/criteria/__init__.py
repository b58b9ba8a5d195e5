"""Label-free criteria by which finished runs are compared. One file each."""
