//! Special functions as formulas: log-gamma, digamma, erfc, the scaled Bessel function I1, next-after, conjugate.

use super::chlo::Math;
use crate::hlo_text::PResult;
use std::f64::consts::{LN_2, PI};
use systole_hlo::graph::{Binary, Direction, NodeId, Unary};
use systole_isa::DType;

/// Lanczos' approximation of the gamma function with g = 7 and nine terms: the constant one.
const LANCZOS_BASE: f64 = 0.999_999_999_999_809_93;
const LANCZOS_G: f64 = 7.0;
/// The terms `c / (z + i + 1)`.
const LANCZOS: [f64; 8] = [
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// The hyperbolic cosine as CHLO defines it: a sum of exponentials that overflows no earlier than its result.
pub(super) fn cosh(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    let half = m.real(-LN_2)?;
    let (up, down) = (m.two(Binary::Add, x, half)?, m.two(Binary::Sub, half, x)?);
    let (up, down) = (m.one(Unary::Exp, up)?, m.one(Unary::Exp, down)?);
    m.two(Binary::Add, up, down)
}

/// Below one half the reflection formula is used.
fn reflected(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<(NodeId, NodeId)> {
    let reflect = m.is(x, Direction::Lt, 0.5)?;
    let (minus, less) = (m.one(Unary::Neg, x)?, m.with(Binary::Sub, x, 1.0)?);
    Ok((reflect, m.select(reflect, minus, less)?))
}

/// `log(z + g + 1/2)`, accurate for small z.
fn log_t(m: &mut Math<'_, '_, '_, '_>, z: NodeId) -> PResult<NodeId> {
    let half = LANCZOS_G + 0.5;
    let scaled = m.with(Binary::Div, z, half)?;
    let log = m.one(Unary::Log1p, scaled)?;
    m.with(Binary::Add, log, half.ln())
}

pub(super) fn lgamma(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    let (reflect, z) = reflected(m, x)?;
    let mut sum = m.real(LANCZOS_BASE)?;
    for (i, c) in LANCZOS.iter().enumerate() {
        let at = m.with(Binary::Add, z, i as f64 + 1.0)?;
        let term = m.from(Binary::Div, *c, at)?;
        sum = m.two(Binary::Add, sum, term)?;
    }
    let log_t = log_t(m, z)?;
    let t = m.with(Binary::Add, z, LANCZOS_G + 0.5)?;
    let ratio = m.two(Binary::Div, t, log_t)?;
    let shifted = m.with(Binary::Add, z, 0.5)?;
    let factor = m.two(Binary::Sub, shifted, ratio)?;
    let main = m.two(Binary::Mul, factor, log_t)?;
    let main = m.with(Binary::Add, main, 0.5 * (LN_2 + PI.ln()))?;
    let log_sum = m.one(Unary::Log, sum)?;
    let log_y = m.two(Binary::Add, main, log_sum)?;
    // log(pi) - log|sin(pi x)| - log_y, with the argument of the sine reduced first.
    let magnitude = m.one(Unary::Abs, x)?;
    let floor = m.one(Unary::Floor, magnitude)?;
    let fraction = m.two(Binary::Sub, magnitude, floor)?;
    let above = m.is(fraction, Direction::Gt, 0.5)?;
    let rest = m.from(Binary::Sub, 1.0, fraction)?;
    let reduced = m.select(above, rest, fraction)?;
    let angle = m.with(Binary::Mul, reduced, PI)?;
    let sine = m.one(Unary::Sin, angle)?;
    let log_sine = m.one(Unary::Log, sine)?;
    let from_pi = m.from(Binary::Sub, PI.ln(), log_sine)?;
    let finite = m.two(Binary::Sub, from_pi, log_y)?;
    let pole = m.one(Unary::Neg, log_sine)?;
    let is_finite = m.one(Unary::IsFinite, log_sine)?;
    let reflection = m.select(is_finite, finite, pole)?;
    let result = m.select(reflect, reflection, log_y)?;
    let infinity = m.real(f64::INFINITY)?;
    let is_infinite = m.compare(Direction::Eq, magnitude, infinity)?;
    m.select(is_infinite, infinity, result)
}

pub(super) fn digamma(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    let (reflect, z) = reflected(m, x)?;
    let mut top = m.real(0.0)?;
    let mut bottom = m.real(LANCZOS_BASE)?;
    for (i, c) in LANCZOS.iter().enumerate() {
        let at = m.with(Binary::Add, z, i as f64 + 1.0)?;
        let term = m.from(Binary::Div, *c, at)?;
        let slope = m.two(Binary::Div, term, at)?;
        top = m.two(Binary::Sub, top, slope)?;
        bottom = m.two(Binary::Add, bottom, term)?;
    }
    let log_t = log_t(m, z)?;
    let t = m.with(Binary::Add, z, LANCZOS_G + 0.5)?;
    let ratio = m.two(Binary::Div, top, bottom)?;
    let tail = m.from(Binary::Div, LANCZOS_G, t)?;
    let y = m.two(Binary::Add, log_t, ratio)?;
    let y = m.two(Binary::Sub, y, tail)?;
    // y - pi cot(pi x), the argument reduced to -1/2 .. 1/2.
    let shifted = m.with(Binary::Add, x, 0.5)?;
    let whole = m.one(Unary::Floor, shifted)?;
    let reduced = m.two(Binary::Sub, x, whole)?;
    let angle = m.with(Binary::Mul, reduced, PI)?;
    let (cosine, sine) = (m.one(Unary::Cos, angle)?, m.one(Unary::Sin, angle)?);
    let cosine = m.with(Binary::Mul, cosine, PI)?;
    let cotangent = m.two(Binary::Div, cosine, sine)?;
    let reflection = m.two(Binary::Sub, y, cotangent)?;
    let result = m.select(reflect, reflection, y)?;
    let floor = m.one(Unary::Floor, x)?;
    let integer = m.compare(Direction::Eq, x, floor)?;
    let negative = m.is(x, Direction::Le, 0.0)?;
    let pole = m.two(Binary::And, integer, negative)?;
    let nan = m.real(f64::NAN)?;
    m.select(pole, nan, result)
}

/// erfc(x) exp(x²) x for 1 <= x < 2 and beyond, in 1/x², single precision.
const ERFC32_NEAR: [f64; 9] = [
    2.326_819_970_068_386e-2,
    -1.387_039_388_740_657e-1,
    3.687_424_674_597_105e-1,
    -5.824_733_027_278_666e-1,
    6.210_004_621_745_983e-1,
    -4.944_515_323_274_145e-1,
    3.404_879_937_665_872e-1,
    -2.741_127_028_184_656e-1,
    5.638_259_427_386_472e-1,
];
const ERFC32_FAR: [f64; 8] = [
    -1.047_766_399_936_249e1,
    1.297_719_955_372_516e1,
    -7.495_518_717_768_503,
    2.921_019_019_210_786,
    -1.015_265_279_202_700,
    4.218_463_358_204_948e-1,
    -2.820_767_439_740_514e-1,
    5.641_895_067_754_075e-1,
];
/// erfc(x) exp(x²) as quotients in x for 1 <= x < 8 and beyond, double precision.
const ERFC64_NEAR: ([f64; 9], [f64; 9]) = (
    [
        2.461_969_814_735_305e-10,
        5.641_895_648_310_688e-1,
        7.463_210_564_422_699,
        4.863_719_709_856_814e1,
        1.965_208_329_560_771e2,
        5.264_451_949_954_774e2,
        9.345_285_271_719_576e2,
        1.027_551_886_895_157_1e3,
        5.575_353_353_693_993e2,
    ],
    [
        1.0,
        1.322_819_511_547_45e1,
        8.670_721_408_859_897e1,
        3.549_377_788_878_199e2,
        9.757_085_017_432_055e2,
        1.823_909_166_879_097_4e3,
        2.246_337_608_187_109_8e3,
        1.656_663_091_941_613_5e3,
        5.575_353_408_177_277e2,
    ],
);
const ERFC64_FAR: ([f64; 6], [f64; 7]) = (
    [
        5.641_895_835_477_551e-1,
        1.275_366_707_599_781,
        5.019_050_422_511_805,
        6.160_210_979_930_536,
        7.409_742_699_504_489,
        2.978_866_653_721_002_4,
    ],
    [
        1.0,
        2.260_528_632_201_173,
        9.396_035_249_380_014,
        1.204_895_398_080_966_6e1,
        1.708_144_507_475_659e1,
        9.608_968_090_632_859,
        3.369_076_451_000_815,
    ],
);

pub(super) fn erfc(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    let magnitude = m.one(Unary::Abs, x)?;
    let square = m.two(Binary::Mul, x, x)?;
    let minus = m.one(Unary::Neg, square)?;
    let decay = m.one(Unary::Exp, minus)?;
    let factor = if m.shape.dtype == DType::F64 {
        let quotient = |m: &mut Math<'_, '_, '_, '_>, (p, q): (&[f64], &[f64])| {
            let (p, q) = (m.polynomial(magnitude, p)?, m.polynomial(magnitude, q)?);
            m.two(Binary::Div, p, q)
        };
        let near = quotient(m, (&ERFC64_NEAR.0, &ERFC64_NEAR.1))?;
        let far = quotient(m, (&ERFC64_FAR.0, &ERFC64_FAR.1))?;
        let is_near = m.is(magnitude, Direction::Lt, 8.0)?;
        m.select(is_near, near, far)?
    } else {
        let inverse = m.from(Binary::Div, 1.0, magnitude)?;
        let y = m.two(Binary::Mul, inverse, inverse)?;
        let (near, far) = (m.polynomial(y, &ERFC32_NEAR)?, m.polynomial(y, &ERFC32_FAR)?);
        let is_near = m.is(magnitude, Direction::Lt, 2.0)?;
        let p = m.select(is_near, near, far)?;
        m.two(Binary::Mul, inverse, p)?
    };
    let tail = m.two(Binary::Mul, decay, factor)?;
    let zero = m.real(0.0)?;
    let gone = m.compare(Direction::Eq, decay, zero)?;
    let tail = m.select(gone, zero, tail)?;
    let other = m.from(Binary::Sub, 2.0, tail)?;
    let negative = m.is(x, Direction::Lt, 0.0)?;
    let outer = m.select(negative, other, tail)?;
    let erf = m.one(Unary::Erf, x)?;
    let inner = m.from(Binary::Sub, 1.0, erf)?;
    let small = m.is(magnitude, Direction::Lt, 1.0)?;
    m.select(small, inner, outer)
}

/// exp(-x) I1(x) / x for x of 0 to 8 as a Chebyshev series in x/2 - 2.
const I1E_NEAR: [f64; 29] = [
    2.777_914_112_761_046_4e-18,
    -2.111_421_214_358_166e-17,
    1.553_631_957_736_200_5e-16,
    -1.105_596_947_735_386_3e-15,
    7.600_684_294_735_407e-15,
    -5.042_185_504_727_912e-14,
    3.223_793_365_945_575e-13,
    -1.983_974_397_764_943_7e-12,
    1.173_618_629_889_09e-11,
    -6.663_489_723_502_027e-11,
    3.625_590_281_552_117e-10,
    -1.887_249_751_722_829_3e-9,
    9.381_537_386_495_772e-9,
    -4.445_059_128_796_328e-8,
    2.003_294_753_552_135_3e-7,
    -8.568_720_264_695_455e-7,
    3.470_251_308_137_678_5e-6,
    -1.327_316_365_603_943_6e-5,
    4.781_565_107_550_054e-5,
    -1.617_608_158_258_967_4e-4,
    5.122_859_561_685_758e-4,
    -1.513_572_450_631_253_1e-3,
    4.156_422_944_312_888e-3,
    -1.056_408_489_462_619_7e-2,
    2.472_644_903_062_651_6e-2,
    -5.294_598_120_809_499e-2,
    1.026_436_586_898_471e-1,
    -1.764_165_183_578_340_6e-1,
    2.525_871_864_436_336_5e-1,
];
/// exp(-x) I1(x) sqrt(x) beyond 8 as a Chebyshev series in 32/x - 2.
const I1E_FAR: [f64; 25] = [
    7.517_296_310_842_105e-18,
    4.414_348_323_071_708e-18,
    -4.650_305_368_489_358e-17,
    -3.209_525_921_993_424e-17,
    2.962_628_997_645_95e-16,
    3.308_202_310_920_928e-16,
    -1.880_354_775_510_782_4e-15,
    -3.814_403_072_437_008e-15,
    1.042_027_698_412_880_3e-14,
    4.272_440_016_711_951e-14,
    -2.101_541_842_772_664_3e-14,
    -4.083_551_111_092_197e-13,
    -7.198_551_776_245_908e-13,
    2.035_628_544_147_089_5e-12,
    1.412_580_743_661_378_1e-11,
    3.252_603_583_015_488e-11,
    -1.897_495_812_350_541_2e-11,
    -5.589_743_462_196_584e-10,
    -3.835_380_385_964_237e-9,
    -2.631_468_846_889_519_5e-8,
    -2.512_236_237_870_209e-7,
    -3.882_564_808_877_69e-6,
    -1.105_889_387_626_237_2e-4,
    -9.761_097_491_361_469e-3,
    7.785_762_350_182_801e-1,
];

pub(super) fn bessel_i1e(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    // Single precision needs the large coefficients only.
    let double = m.shape.dtype == DType::F64;
    let (near, far) = if double { (&I1E_NEAR[..], &I1E_FAR[..]) } else { (&I1E_NEAR[12..], &I1E_FAR[18..]) };
    let z = m.one(Unary::Abs, x)?;
    let half = m.with(Binary::Mul, z, 0.5)?;
    let at = m.with(Binary::Sub, half, 2.0)?;
    let series = m.chebyshev(at, near)?;
    let inner = m.two(Binary::Mul, series, z)?;
    let inverse = m.from(Binary::Div, 32.0, z)?;
    let at = m.with(Binary::Sub, inverse, 2.0)?;
    let series = m.chebyshev(at, far)?;
    let root = m.one(Unary::Sqrt, z)?;
    let outer = m.two(Binary::Div, series, root)?;
    let is_near = m.is(z, Direction::Le, 8.0)?;
    let y = m.select(is_near, inner, outer)?;
    let minus = m.one(Unary::Neg, y)?;
    let negative = m.is(x, Direction::Lt, 0.0)?;
    m.select(negative, minus, y)
}

/// A complex square as `(re - im)(re + im) + 2 re im i`: no difference of squares that are infinite, and zero where the
/// parts are as large.
pub(super) fn square(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    let complex = m.shape.dtype;
    if !complex.is_complex() {
        return m.two(Binary::Mul, x, x);
    }
    let (re, im) = (m.one(Unary::Real, x)?, m.one(Unary::Imag, x)?);
    m.shape.dtype = complex.real();
    let (less, more) = (m.two(Binary::Sub, re, im)?, m.two(Binary::Add, re, im)?);
    let real = m.two(Binary::Mul, less, more)?;
    let (size, other) = (m.one(Unary::Abs, re)?, m.one(Unary::Abs, im)?);
    let same = m.compare(Direction::Eq, size, other)?;
    let finite = m.one(Unary::IsFinite, re)?;
    let none = m.two(Binary::And, same, finite)?;
    let zero = m.real(0.0)?;
    let real = m.select(none, zero, real)?;
    let product = m.two(Binary::Mul, re, im)?;
    let imag = m.two(Binary::Add, product, product)?;
    m.shape.dtype = complex;
    m.two(Binary::Complex, real, imag)
}

pub(super) fn conj(m: &mut Math<'_, '_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    if !m.shape.dtype.is_complex() {
        return Ok(x);
    }
    let (re, im) = (m.one(Unary::Real, x)?, m.one(Unary::Imag, x)?);
    let im = m.one(Unary::Neg, im)?;
    m.two(Binary::Complex, re, im)
}

/// The neighbour of `x` towards `y`, by counting in the bits (comparisons of floats would flush subnormals).
pub(super) fn next_after(m: &mut Math<'_, '_, '_, '_>, x: NodeId, y: NodeId) -> PResult<NodeId> {
    let dtype = m.shape.dtype;
    let word = match (dtype.is_float(), dtype.bits()) {
        (true, 64) => DType::U64,
        (true, 32) => DType::U32,
        (true, 16) => DType::U16,
        _ => return Err(m.error("next_after takes f16, bf16, f32 or f64")),
    };
    let infinity = encode_infinity(dtype);
    let sign = 1u64 << (dtype.bits() - 1);
    let (xb, yb) = (m.bitcast(x, word)?, m.bitcast(y, word)?);
    let (sign_bit, zero, unit, limit) = (m.bits(sign)?, m.bits(0)?, m.bits(1)?, m.bits(infinity)?);
    let low = m.bits(sign - 1)?;
    let (xm, ym) = (m.two(Binary::And, xb, low)?, m.two(Binary::And, yb, low)?);
    let (xs, ys) = (m.two(Binary::And, xb, sign_bit)?, m.two(Binary::And, yb, sign_bit)?);
    // Away from zero by adding one to the magnitude's bits, towards it by subtracting.
    let differ = m.compare(Direction::Ne, xs, ys)?;
    let larger = m.compare(Direction::Gt, xm, ym)?;
    let inwards = m.two(Binary::Or, differ, larger)?;
    let (less, more) = (m.two(Binary::Sub, xb, unit)?, m.two(Binary::Add, xb, unit)?);
    let step = m.select(inwards, less, more)?;
    let smallest = m.two(Binary::Or, ys, unit)?;
    let x_zero = m.compare(Direction::Eq, xm, zero)?;
    let y_zero = m.compare(Direction::Eq, ym, zero)?;
    let step = m.select(x_zero, smallest, step)?;
    let both_zero = m.two(Binary::And, x_zero, y_zero)?;
    let same = m.compare(Direction::Eq, xb, yb)?;
    let equal = m.two(Binary::Or, same, both_zero)?;
    let step = m.select(equal, yb, step)?;
    let x_nan = m.compare(Direction::Gt, xm, limit)?;
    let y_nan = m.compare(Direction::Gt, ym, limit)?;
    let nan = m.two(Binary::Or, x_nan, y_nan)?;
    let quiet = m.bits(infinity | infinity >> 1)?;
    let step = m.select(nan, quiet, step)?;
    m.bitcast(step, dtype)
}

/// The bits of infinity.
fn encode_infinity(dtype: DType) -> u64 {
    systole_hlo::graph::number::encode_float(dtype, f64::INFINITY)
}
