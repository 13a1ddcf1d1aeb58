//! Expressions over parameters and columns.

use systole_sweep::expr::Expr;

#[test]
fn expressions_have_the_usual_order_and_take_units() {
    let value = |n: &str| [("a.b", 3.0), ("c", 4.0)].iter().find(|v| v.0 == n).map(|v| v.1);
    for (text, expected) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3 - -1", 10.0),
        ("a.b * c <= 12 && !(c == 3)", 1.0),
        ("2 MiB / 1024", 2048.0),
        ("400 GB/s > 3e11", 1.0),
        ("max(a.b, c) - min(a.b, c)", 1.0),
        ("1.5 GHz", 1.5e9),
        ("c / 2 / 2", 1.0),
    ] {
        assert_eq!(Expr::parse(text).expect(text).eval(&value), Ok(expected), "{text}");
    }
    for bad in ["", "1 +", "(1", "1 2", "3 furlongs", "min(1)", "a.b <= ", &"(".repeat(100)] {
        assert!(Expr::parse(bad).is_err(), "{bad}");
    }
    assert!(Expr::parse("x").expect("a name").eval(&value).is_err());
}
