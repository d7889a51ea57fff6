"""What must hold within one run by arithmetic, without a reference: of sums, ranks, replicas."""
