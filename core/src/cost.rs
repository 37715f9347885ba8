//! Cost of agents, as far as it is known.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// A sum of costs. A part whose price is unknown makes the sum a lower bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "Written", into = "Written")]
pub struct Cost {
    known_usd: f64,
    is_partial: bool,
    tokens: u64,
}

impl Cost {
    /// Returns the cost of one piece of work; `usd` is `None` if it was not measured.
    ///
    /// Agents report these numbers, so they may be invalid: a negative amount counts as 0, a non-finite one as unknown.
    pub fn of(usd: Option<f64>, tokens: u64) -> Cost {
        let usd = usd.filter(|usd| usd.is_finite());
        Cost { known_usd: usd.map_or(0.0, positive), is_partial: usd.is_none(), tokens }
    }

    /// Returns the cost of work that was not measured.
    pub fn unknown() -> Cost {
        Cost::of(None, 0)
    }

    /// Returns the whole cost, or `None` if a part of it is unknown.
    pub fn usd(&self) -> Option<f64> {
        (!self.is_partial).then_some(self.known_usd)
    }

    /// Returns the sum of the measured parts.
    pub fn known_usd(&self) -> f64 {
        self.known_usd
    }

    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Tells whether the cost is known to be zero.
    pub fn is_zero(&self) -> bool {
        *self == Cost::default()
    }
}

/// Returns the amount without a sign: `-0.0` becomes `0.0`.
fn positive(usd: f64) -> f64 {
    if usd > 0.0 { usd } else { 0.0 }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        let sum = self.known_usd + other.known_usd;
        Cost {
            known_usd: if sum.is_finite() { sum } else { f64::MAX },
            is_partial: self.is_partial || other.is_partial,
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

/// The sum of no costs is `0.0`, unlike the sum of an empty list of floats, which is `-0.0`.
impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Add::add)
    }
}

/// Serialized form of a cost in journals and `--json`.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
struct Written {
    /// Null if a part is unknown.
    cost_usd: Option<f64>,
    #[serde(default)]
    known_cost_usd: f64,
    #[serde(default)]
    tokens: u64,
}

impl From<Cost> for Written {
    fn from(cost: Cost) -> Written {
        Written { cost_usd: cost.usd(), known_cost_usd: cost.known_usd, tokens: cost.tokens }
    }
}

impl From<Written> for Cost {
    fn from(written: Written) -> Cost {
        let Written { cost_usd, known_cost_usd, tokens } = written;
        Cost { is_partial: cost_usd.is_none(), ..Cost::of(cost_usd.or(Some(known_cost_usd)), tokens) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_makes_the_sum_a_lower_bound() {
        let sum: Cost = [Cost::of(Some(1.25), 100), Cost::unknown(), Cost::of(None, 20)].into_iter().sum();
        assert_eq!((sum.usd(), sum.known_usd(), sum.tokens()), (None, 1.25, 120));
        let known: Cost = [Cost::of(Some(1.25), 100), Cost::of(Some(0.5), 1)].into_iter().sum();
        assert_eq!((known.usd(), known.tokens()), (Some(1.75), 101));
    }

    #[test]
    fn nothing_is_zero_without_a_sign() {
        let nothing: Cost = std::iter::empty().sum();
        for zero in [nothing, Cost::of(Some(-0.0), 0), Cost::of(Some(-3.0), 0)] {
            let usd = zero.usd().unwrap();
            assert!(usd == 0.0 && usd.is_sign_positive(), "{zero:?}");
        }
        assert!(nothing.is_zero() && !Cost::unknown().is_zero());
    }

    #[test]
    fn absurd_amounts_do_not_overflow() {
        for absurd in [f64::NAN, f64::INFINITY] {
            assert_eq!(Cost::of(Some(absurd), 0), Cost::unknown());
        }
        let most = Cost::of(Some(f64::MAX), u64::MAX);
        assert_eq!((most + most).usd(), Some(f64::MAX));
        assert_eq!((most + most).tokens(), u64::MAX);
    }

    #[test]
    fn a_cost_is_read_as_it_was_written() {
        for cost in [Cost::default(), Cost::of(Some(0.1), 3), Cost::of(Some(0.1), 3) + Cost::unknown()] {
            let text = serde_json::to_string(&cost).unwrap();
            assert_eq!(serde_json::from_str::<Cost>(&text).unwrap(), cost, "{text}");
        }
        assert_eq!(
            serde_json::to_string(&(Cost::of(Some(0.5), 3) + Cost::unknown())).unwrap(),
            r#"{"cost_usd":null,"known_cost_usd":0.5,"tokens":3}"#
        );
    }
}
