import { describe, expect, it } from 'vitest';

import {
  formatCount,
  formatExact,
  formatNumber,
  formatPercent,
} from '../../../src/elements/parts/format';

describe('formatNumber', () => {
  it.each([
    [0, '0'],
    [-0, '-0'],
    [1, '1'],
    [-42, '-42'],
    [999_999, '999999'],
    [1_000_000, '1e6'],
    [123_456_789, '1.235e8'],
    [0.1, '0.1'],
    [3.14159265, '3.1416'],
    [-3.4000001, '-3.4'],
    [65504.123, '65504'],
    [0.00012345678, '0.00012346'],
    [0.000012345678, '1.235e-5'],
    [-1e-300, '-1e-300'],
    [NaN, 'NaN'],
    [Infinity, 'Infinity'],
    [-Infinity, '-Infinity'],
  ])('writes %d as %s', (value, text) => {
    expect(formatNumber(value)).toBe(text);
  });

  it('stays within a relative error of 1e-3 of the value it stands for', () => {
    for (let exponent = -30; exponent <= 30; exponent++) {
      const value = 1.23456789 * 10 ** exponent;
      expect(Math.abs(Number(formatNumber(value)) / value - 1)).toBeLessThan(1e-3);
      expect(formatNumber(value).length).toBeLessThanOrEqual(11);
    }
  });
});

describe('formatPercent', () => {
  it.each([
    [0, '0 %'],
    [0.5, '50 %'],
    [-0.23076923, '-23.08 %'],
    [1e-9, '1e-7 %'],
    [1234567, '1.23e8 %'],
    [NaN, 'NaN'],
    [Infinity, 'Infinity'],
  ])('writes the fraction %d as %s', (fraction, text) => {
    expect(formatPercent(fraction)).toBe(text);
  });
});

it('keeps every digit in the exact form', () => {
  const value = 0.1 + 0.2;
  expect(Number(formatExact(value))).toBe(value);
});

it('groups the digits of counts', () => {
  expect(formatCount(213_000)).toBe('213,000');
});
