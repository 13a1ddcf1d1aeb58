//! How the chips of a pod are joined: rings, tori and meshes of up to three axes, and fully connected pods.
//!
//! Chips are numbered in row-major order of the axes. Device `d` is on chip `d / devices_per_chip` (devices fill a chip
//! first), or where the device order says. A message goes along the axes in order (dimension by dimension), the shorter way round where an axis wraps; of
//! two ways of equal length it takes the one that the caller's `tie` says.

use crate::chip::ChipConfig;
use serde::{Deserialize, Serialize};

/// Most axes of a pod.
pub const MAX_AXES: usize = 3;
/// Most devices of a pod.
pub const MAX_POD: u64 = 1 << 16;

/// The shape of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Topology {
    /// Chips along each axis.
    pub dims: Vec<u32>,
    /// Whether each axis wraps around.
    pub wrap: Vec<bool>,
    /// Every chip has a link to every other; `dims` has one axis.
    pub full: bool,
    /// Devices of a chip.
    pub devices_per_chip: u32,
    /// The place of each device, counted by chips and the devices of a chip; empty: every device's number.
    pub order: Vec<u32>,
}

/// One hop of a route: the chip whose link is used and the link's port there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The chip.
    pub chip: u32,
    /// `2 * axis` towards higher coordinates, `2 * axis + 1` towards lower ones; [`Hop::INSIDE`] between the devices of a
    /// chip; in a fully connected pod the other chip's number.
    pub port: u32,
}

impl Hop {
    /// The port between the devices of one chip.
    pub const INSIDE: u32 = u32::MAX;
}

impl Topology {
    /// One chip with its devices.
    pub fn single(chip: &ChipConfig) -> Topology {
        Topology {
            dims: vec![1],
            wrap: vec![false],
            full: false,
            devices_per_chip: chip.devices_per_chip().max(1),
            order: Vec::new(),
        }
    }

    /// A topology from its text: `4x4`, `4x4:torus`, `2x2x2:mesh`, `4x2:torus,mesh` (each axis), `ring:8`, `full:8`.
    ///
    /// Without a word after the sizes, axes wrap from the chip's `ici.wrap_at` on.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str, chip: &ChipConfig) -> Result<Topology, String> {
        let (head, tail) = text.split_once(':').map_or((text, None), |(h, t)| (h, Some(t)));
        let number = |s: &str| {
            let n = s.trim().parse::<u32>().ok().filter(|n| (1..=MAX_POD as u32).contains(n));
            n.ok_or_else(|| format!("topology `{text}`: `{s}` is no number of chips (1 to {MAX_POD})"))
        };
        let mut t = Topology::single(chip);
        if head == "ring" || head == "full" {
            let n = number(tail.ok_or_else(|| format!("topology `{text}`: the size is missing, e.g. `{head}:8`"))?)?;
            (t.dims, t.wrap, t.full) = (vec![n], vec![head == "ring"], head == "full");
        } else {
            t.dims = head.split('x').map(number).collect::<Result<_, _>>()?;
            if t.dims.len() > MAX_AXES {
                return Err(format!("topology `{text}` has {} axes, at most {MAX_AXES} are known", t.dims.len()));
            }
            t.wrap = wraps(text, tail, &t.dims, chip)?;
        }
        t.check(text, chip)?;
        Ok(t)
    }

    /// A topology from what printing one gives, of chips of so many devices; whether a chip has the links is not asked.
    pub fn printed(text: &str, devices_per_chip: u32) -> Option<Topology> {
        let (head, tail) = text.split_once(':')?;
        if head == "full" {
            let chips: u32 = tail.parse().ok()?;
            chips.checked_mul(devices_per_chip).filter(|&n| u64::from(n) <= MAX_POD)?;
            let dims = vec![chips];
            return Some(Topology { dims, wrap: vec![false], full: true, devices_per_chip, order: Vec::new() });
        }
        let dims = head.split('x').map(str::parse).collect::<Result<Vec<u32>, _>>().ok()?;
        dims.iter().try_fold(devices_per_chip, |n, &d| n.checked_mul(d)).filter(|&n| u64::from(n) <= MAX_POD)?;
        let wrap = tail.split(',').map(|w| match w {
            "torus" => Some(true),
            "mesh" => Some(false),
            _ => None,
        });
        let wrap = wrap.collect::<Option<Vec<bool>>>()?;
        (wrap.len() == dims.len()).then_some(Topology { dims, wrap, full: false, devices_per_chip, order: Vec::new() })
    }

    /// The shape that a chip's pods have by default, for so many devices: the chip file's kind, axes as equal as they can
    /// be.
    ///
    /// # Errors
    /// If the chip has no links and more than one chip is asked for.
    pub fn default_for(chip: &ChipConfig, devices: u32) -> Result<Topology, String> {
        let mut t = Topology::single(chip);
        let chips = devices.div_ceil(t.devices_per_chip).max(1);
        if chips == 1 {
            return Ok(t);
        }
        let kind = chip.ici.topology.as_str();
        let axes = match kind {
            "none" => return Err(format!("{devices} devices do not fit: chip `{}` has no interconnect", chip.name)),
            "ring" | "full" => 1,
            "torus2d" | "mesh2d" => 2,
            _ => 3,
        };
        t.dims = balanced(chips, axes);
        t.full = kind == "full";
        let wraps = |n: u32| match kind {
            "ring" => n > 2,
            "mesh2d" | "mesh3d" | "full" => false,
            _ => chip.ici.wrap_at > 0 && n >= chip.ici.wrap_at,
        };
        t.wrap = t.dims.iter().map(|&n| wraps(n)).collect();
        t.check(&t.to_string(), chip)?;
        Ok(t)
    }

    fn check(&self, text: &str, chip: &ChipConfig) -> Result<(), String> {
        let chips = self.dims.iter().map(|&d| u64::from(d)).product::<u64>();
        if chips * u64::from(self.devices_per_chip) > MAX_POD {
            return Err(format!("topology `{text}` has more than {MAX_POD} devices"));
        }
        let long = self.dims.iter().filter(|&&d| d > 1).count() as u32;
        let need = if self.full { self.dims[0] - 1 } else { 2 * long };
        if need > chip.ici.links && !(long == 1 && chips == 2 && chip.ici.links > 0) {
            return Err(format!(
                "topology `{text}` needs {need} links a chip, chip `{}` has {} (`ici.links`)",
                chip.name, chip.ici.links
            ));
        }
        Ok(())
    }

    /// Whether the pod looks the same from every chip along an axis.
    pub fn turns(&self, axis: usize) -> bool {
        self.full || self.wrap[axis] || self.dims[axis] == 1
    }

    /// Number of chips.
    pub fn chips(&self) -> u32 {
        self.dims.iter().product()
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.chips() * self.devices_per_chip
    }

    /// Puts devices at other places: device `i` at place `order[i]`.
    ///
    /// # Errors
    /// If the order does not name every place once.
    pub fn ordered(mut self, order: Vec<u32>) -> Result<Topology, String> {
        let mut seen = vec![false; self.devices() as usize];
        for &place in &order {
            match seen.get_mut(place as usize) {
                Some(taken) if !*taken => *taken = true,
                Some(_) => return Err(format!("the device order names place {place} twice")),
                None => {
                    return Err(format!(
                        "the device order names place {place}, topology {self} has {}",
                        self.devices()
                    ));
                }
            }
        }
        if order.len() != seen.len() {
            return Err(format!("the device order has {} places, topology {self} has {}", order.len(), seen.len()));
        }
        self.order = if order.windows(2).all(|w| w[0] < w[1]) { Vec::new() } else { order };
        Ok(self)
    }

    fn place(&self, device: u32) -> u32 {
        self.order.get(device as usize).copied().unwrap_or(device)
    }

    /// The chip that a device is on.
    pub fn chip_of(&self, device: u32) -> u32 {
        self.place(device) / self.devices_per_chip
    }

    /// A device's number on its chip.
    pub fn core_of(&self, device: u32) -> u32 {
        self.place(device) % self.devices_per_chip
    }

    /// A chip's coordinate along each axis.
    pub fn coordinates(&self, chip: u32) -> Vec<u32> {
        let mut rest = chip;
        let mut c: Vec<u32> = Vec::with_capacity(self.dims.len());
        for &d in self.dims.iter().rev() {
            c.push(rest % d);
            rest /= d;
        }
        c.reverse();
        c
    }

    /// The chip at coordinates.
    pub fn chip_at(&self, coordinates: &[u32]) -> u32 {
        self.dims.iter().zip(coordinates).fold(0, |n, (d, c)| n * d + c)
    }

    /// Ports of a chip, [`Hop::INSIDE`] apart.
    pub fn ports(&self) -> u32 {
        if self.full { self.chips() } else { 2 * self.dims.len() as u32 }
    }

    /// Links of a chip, one each way counted once: fewer at the ends of axes that do not wrap.
    pub fn links(&self, chip: u32) -> usize {
        (0..self.ports()).filter(|&port| self.neighbour(Hop { chip, port }).is_some()).count()
    }

    /// The chip at the other end of a link, or `None` where the axis ends.
    pub fn neighbour(&self, hop: Hop) -> Option<u32> {
        if self.full {
            return (hop.port < self.chips() && hop.port != hop.chip).then_some(hop.port);
        }
        let axis = hop.port as usize / 2;
        let (n, wrap) = (*self.dims.get(axis)?, self.wrap[axis]);
        let mut c = self.coordinates(hop.chip);
        let forward = hop.port.is_multiple_of(2);
        let last = if forward { n - 1 } else { 0 };
        if n == 1 || c[axis] == last && !wrap {
            return None;
        }
        c[axis] = if forward { (c[axis] + 1) % n } else { (c[axis] + n - 1) % n };
        Some(self.chip_at(&c))
    }

    /// Signed steps along an axis from one coordinate to another, the shorter way; `tie` decides between equal ways.
    fn steps(&self, axis: usize, from: u32, to: u32, tie: bool) -> i64 {
        let (n, from, to) = (i64::from(self.dims[axis]), i64::from(from), i64::from(to));
        let direct = to - from;
        if !self.wrap[axis] {
            return direct;
        }
        let up = direct.rem_euclid(n);
        match (2 * up).cmp(&n) {
            std::cmp::Ordering::Less => up,
            std::cmp::Ordering::Greater => up - n,
            std::cmp::Ordering::Equal => {
                if tie {
                    up
                } else {
                    up - n
                }
            }
        }
    }

    /// The links of a message between devices, in order; empty within a device.
    pub fn route(&self, from: u32, to: u32, tie: bool) -> Vec<Hop> {
        let (a, b) = (self.chip_of(from), self.chip_of(to));
        if from == to {
            return Vec::new();
        }
        if a == b {
            return vec![Hop { chip: a, port: Hop::INSIDE }];
        }
        if self.full {
            return vec![Hop { chip: a, port: b }];
        }
        let mut at = self.coordinates(a);
        let target = self.coordinates(b);
        let mut route = Vec::new();
        for axis in 0..self.dims.len() {
            let steps = self.steps(axis, at[axis], target[axis], tie);
            let (n, forward) = (self.dims[axis], steps > 0);
            for _ in 0..steps.unsigned_abs() {
                route.push(Hop { chip: self.chip_at(&at), port: 2 * axis as u32 + u32::from(!forward) });
                at[axis] = if forward { (at[axis] + 1) % n } else { (at[axis] + n - 1) % n };
            }
        }
        // The other device of the chip is reached inside it.
        if self.core_of(from) != self.core_of(to) {
            route.push(Hop { chip: b, port: Hop::INSIDE });
        }
        route
    }
}

/// Which axes wrap around.
fn wraps(text: &str, tail: Option<&str>, dims: &[u32], chip: &ChipConfig) -> Result<Vec<bool>, String> {
    let by_length = |n: &u32| chip.ici.wrap_at > 0 && *n >= chip.ici.wrap_at;
    let Some(tail) = tail else {
        let mesh = chip.ici.topology.starts_with("mesh");
        return Ok(dims.iter().map(|n| !mesh && by_length(n)).collect());
    };
    let words: Vec<&str> = tail.split(',').collect();
    let each = |w: &&str| match *w {
        "torus" => Ok(true),
        "mesh" => Ok(false),
        _ => Err(format!("topology `{text}`: `{w}` is neither `torus` nor `mesh`")),
    };
    let found: Vec<bool> = words.iter().map(each).collect::<Result<_, _>>()?;
    match (found.len(), dims.len()) {
        (1, n) => Ok(vec![found[0]; n]),
        (m, n) if m == n => Ok(found),
        (m, n) => Err(format!("topology `{text}`: {m} words for {n} axes")),
    }
}

/// `n` as a product of `axes` factors, as equal as can be, ascending.
fn balanced(n: u32, axes: usize) -> Vec<u32> {
    let (mut rest, mut out) = (n, Vec::new());
    for left in (1..=axes).rev() {
        let root = (f64::from(rest)).powf(1.0 / left as f64).round() as u32;
        let factor = (1..=root.max(1)).rev().find(|f| rest % f == 0).unwrap_or(1);
        let factor = if left == 1 { rest } else { factor };
        out.push(factor);
        rest /= factor;
    }
    out.sort_unstable();
    out.retain(|&d| d > 1);
    out
}

impl std::fmt::Display for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.full {
            return write!(f, "full:{}", self.dims[0]);
        }
        let sizes: Vec<String> = self.dims.iter().map(u32::to_string).collect();
        let words: Vec<&str> = self.wrap.iter().map(|w| if *w { "torus" } else { "mesh" }).collect();
        write!(f, "{}:{}", sizes.join("x"), words.join(","))
    }
}
