//! Devices of a pod that stand for others.
//!
//! Chips lie on an array of axes that wrap around. Where devices every `n` chips along an axis do the same (what they send goes
//! the same way), those with coordinates below the distances are simulated: each stands for all that lie at multiples of
//! the distances from it. A message to any of them goes to it, and a link stands for those that lie so from it: what one
//! device sends over another's links is what the others send over its own.

use systole_isa::topology::{Hop, Topology};

/// Which devices are simulated, and for whom they stand.
pub(super) struct Fold {
    topology: Topology,
    /// By axis: every how many chips devices are alike; its length where they are not.
    distances: Vec<u32>,
    /// The simulated devices.
    simulated: Vec<u32>,
    /// By device: the place among the simulated ones of the one that stands for it.
    places: Vec<u32>,
    /// By chip: its coordinate along each axis.
    coordinates: Vec<u32>,
    folded: bool,
}

impl Fold {
    /// All devices simulated, or those that distances leave.
    pub fn new(t: &Topology, devices: u32, distances: Option<&[u32]>) -> Fold {
        let coordinates: Vec<u32> = (0..t.chips()).flat_map(|chip| t.coordinates(chip)).collect();
        let Some(distances) = distances else {
            let distances = t.dims.clone();
            let simulated: Vec<u32> = (0..devices).collect();
            let places = simulated.clone();
            return Fold { topology: t.clone(), distances, places, simulated, coordinates, folded: false };
        };
        let mut fold = Fold {
            topology: t.clone(),
            distances: distances.to_vec(),
            simulated: Vec::new(),
            places: vec![0; devices as usize],
            coordinates,
            folded: true,
        };
        fold.simulated = (0..devices).filter(|&d| fold.chip(t.chip_of(d)) == t.chip_of(d)).collect();
        for d in 0..devices {
            let chip = fold.chip(t.chip_of(d));
            let place = fold.simulated.iter().position(|&s| t.chip_of(s) == chip).unwrap_or(0);
            fold.places[d as usize] = place as u32;
        }
        fold
    }

    pub fn simulated(&self) -> &[u32] {
        &self.simulated
    }

    /// The place of the device that stands for one.
    pub fn place(&self, device: u32) -> usize {
        self.places.get(device as usize).copied().unwrap_or(0) as usize
    }

    /// Devices that each simulated one stands for.
    pub fn stands_for(&self) -> u32 {
        self.places.len() as u32 / (self.simulated.len() as u32).max(1)
    }

    /// The chip that stands for one.
    fn chip(&self, chip: u32) -> u32 {
        let c = self.topology.coordinates(chip);
        let c: Vec<u32> = c.iter().zip(&self.distances).map(|(c, by)| c % by).collect();
        self.topology.chip_at(&c)
    }

    /// The link that stands for one.
    pub fn link(&self, hop: Hop) -> Hop {
        match self.folded {
            // In fully connected pods all are alike or none: what the first one sends.
            true if self.topology.full => Hop { chip: 0, ..hop },
            true => Hop { chip: self.chip(hop.chip), ..hop },
            false => hop,
        }
    }

    /// The way from a chip to the one that a device is on, as a number: the same for all that lie so.
    pub fn way(&self, device: u32, chip: u32) -> u32 {
        let t = &self.topology;
        let axes = t.dims.len();
        let of = |chip: u32| &self.coordinates[chip as usize * axes..][..axes];
        let (to, from) = (of(t.chip_of(device)), of(chip));
        let steps = to.iter().zip(from).zip(&t.dims).map(|((b, a), n)| if b < a { b + n - a } else { b - a });
        steps.zip(&t.dims).fold(0, |number, (s, n)| number * n + s)
    }
}
