//! Repeatable random numbers: everything random in a schedule comes from its seed.

use mahabharatha_core::ids::Oid;

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Draws a number of at least `low` and at most `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn index(&mut self, length: usize) -> usize {
        (self.next() % length as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[self.index(from.len())]) }
    }

    pub fn one_of<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.index(N)]
    }
}

fn mix(seed: u64) -> u64 {
    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Makes an object id from the content, as git does.
pub fn oid(content: &str) -> Oid {
    let hash = content.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| mix(hash ^ u64::from(byte)));
    let (a, b) = (mix(hash ^ 1), mix(hash ^ 2) >> 32);
    Oid::new(format!("{hash:016x}{a:016x}{b:08x}")).expect("forty hexadecimal digits")
}
