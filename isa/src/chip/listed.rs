//! Lists of what has a name, a unit and a meaning: each is an enum made from its rows.

/// An enum from rows of variant, name, unit and meaning, which are the variants' documentation too.
#[macro_export]
macro_rules! listed {
    ($(#[$about:meta])+ $list:ident: $($row:ident $name:literal $unit:literal $meaning:literal;)+) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $list { $(#[doc = $meaning] $row),+ }

        impl $list {
            /// All in order of their numbers.
            pub const ALL: &[$list] = &[$($list::$row),+];

            /// Name, unit, and meaning.
            pub const fn info(self) -> (&'static str, &'static str, &'static str) {
                match self { $($list::$row => ($name, $unit, $meaning)),+ }
            }
        }
    };
}
