//! Tests of the evaluator on modules built by hand.
