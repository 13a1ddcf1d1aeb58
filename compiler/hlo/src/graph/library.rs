//! The routines of linear algebra that programs ask for by name: the TPU's custom calls, and LAPACK's that JAX leaves.

/// What a target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// `P A = L U` with partial pivoting.
    Lu,
    /// `A = Q R`, packed.
    Qr,
    /// The matrix that is the product of Householder's reflectors.
    Reflectors,
    /// Eigenvalues and vectors of symmetric matrices.
    Eigh,
    /// Singular values and vectors.
    Svd,
    Cholesky,
    /// A triangular system.
    Solve,
    /// `A = Q H Q^H`, packed.
    Hessenberg,
    /// A tridiagonal system.
    Tridiagonal,
    /// Eigenvalues of any matrix, and its eigenvectors from left and right.
    Eig,
    /// `A = Z T Z^H`, T triangular (of real matrices with blocks of two for complex pairs).
    Schur,
}

/// The targets, `?` standing for LAPACK's letter of the type.
pub const TARGETS: [(&str, Routine); 19] = [
    ("LuDecomposition", Routine::Lu),
    ("Qr", Routine::Qr),
    ("ProductOfElementaryHouseholderReflectors", Routine::Reflectors),
    ("Eigh", Routine::Eigh),
    ("lapack_?getrf_ffi", Routine::Lu),
    ("lapack_?geqrf_ffi", Routine::Qr),
    ("lapack_sorgqr_ffi", Routine::Reflectors),
    ("lapack_dorgqr_ffi", Routine::Reflectors),
    ("lapack_cungqr_ffi", Routine::Reflectors),
    ("lapack_zungqr_ffi", Routine::Reflectors),
    ("lapack_ssyevd_ffi", Routine::Eigh),
    ("lapack_dsyevd_ffi", Routine::Eigh),
    ("lapack_?gesdd_ffi", Routine::Svd),
    ("lapack_?potrf_ffi", Routine::Cholesky),
    ("lapack_?trsm_ffi", Routine::Solve),
    ("lapack_?gehrd_ffi", Routine::Hessenberg),
    ("lapack_?gtsv_ffi", Routine::Tridiagonal),
    ("lapack_?geev_ffi", Routine::Eig),
    ("lapack_?gees_ffi", Routine::Schur),
];

/// The routine that a target asks for.
pub fn routine(target: &str) -> Option<Routine> {
    let named = |pattern: &str| match pattern.split_once('?') {
        Some((before, after)) => {
            let letter = target.strip_prefix(before).and_then(|t| t.strip_suffix(after));
            matches!(letter, Some("s" | "d" | "c" | "z"))
        }
        None => pattern == target,
    };
    TARGETS.iter().find(|t| named(t.0)).map(|t| t.1)
}

/// Whether a target is LAPACK's: its results have `info` at their end.
pub fn is_lapack(target: &str) -> bool {
    target.starts_with("lapack_")
}

/// A number of LAPACK's settings: `high = 5 : i32`.
pub fn number(config: &str, key: &str) -> Option<u64> {
    let (_, rest) = config.split_once(key)?;
    let digits = rest.trim_start_matches([' ', '=', ':', '"']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// A letter of LAPACK's settings, written as its code: `uplo = 76 : ui8`.
pub fn letter(config: &str, key: &str) -> Option<char> {
    u8::try_from(number(config, key)?).ok().map(char::from)
}
