//! Tokens: no arrays of the device, but with places in signatures.

use systole_compiler::front::parse_hlo;
use systole_pjrt::executable::Tokens;

fn tokens(entry: &str) -> Tokens {
    let text = format!("HloModule m\nENTRY e {{ {entry} }}\n");
    let (module, _) = parse_hlo(&text).unwrap_or_else(|e| panic!("{}: {text}", e[0].message));
    Tokens::of(&module)
}

#[test]
fn tokens_have_their_places_in_signatures() {
    let found = tokens(
        "t = token[] parameter(0) a = f32[2] parameter(1) u = token[] parameter(2)
         ROOT r = (token[], f32[2], token[]) tuple(t, a, u)",
    );
    assert_eq!((found.params, found.results), (vec![0, 2], vec![0, 2]));
    let found = tokens(
        "a = f32[2] parameter(0) t = token[] after-all() p = (token[], f32[2]) tuple(t, a)
         ROOT r = (f32[2], (token[], f32[2]), token[]) tuple(a, p, t)",
    );
    assert_eq!((found.params, found.results), (vec![], vec![1, 3]));
    let tokens = Tokens { params: Vec::new(), results: vec![0, 2, 3] };
    assert_eq!(tokens.filled(vec!["a", "b"], || "t"), ["t", "a", "t", "t", "b"]);
}
