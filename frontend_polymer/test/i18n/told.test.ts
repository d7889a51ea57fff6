import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { notedZh } from '../../src/i18n/zh/noted';
import { apartZh, reasonZh } from '../../src/i18n/zh/reasons';

/** English words of four letters and more that are no part of a name or a number. */
function english(text: string): string[] {
  return text
    .split(/[\s，。：、；（）]+/)
    .filter((word) => /^[A-Za-z][a-z]{3,}$/.test(word))
    .filter(
      (word) =>
        !['rank', 'step', 'task', 'structure', 'dump', 'None', 'True', 'False', 'bias'].includes(
          word,
        ),
    );
}

describe('the note beside a pair of tensors in Chinese', () => {
  // tests/builder/verdict/test_told.py holds this list against what the builder writes.
  const notes = JSON.parse(readFileSync('test/i18n/noted.json', 'utf8')) as string[];

  it.each(notes)('leaves nothing in English of: %s', (note) => {
    expect(notedZh(note)).not.toBe(note);
    expect(english(notedZh(note))).toEqual([]);
  });

  const reasons = JSON.parse(readFileSync('test/i18n/noted-why.json', 'utf8')) as string[];

  it.each(reasons)('says in Chinese why nothing was compared: %s', (note) => {
    const words = english(notedZh(note)).filter((word) => word !== 'dump_tensor_data');
    expect(notedZh(note)).not.toBe(note);
    expect(words.filter((word) => !note.includes(`${word}.`))).toEqual([]);
  });

  it('keeps what a library says of a file', () => {
    expect(notedZh('unreadable: npu, a.pt: OSError no such device')).toBe(
      '不可读：本次运行，a.pt: OSError no such device',
    );
    expect(notedZh('shape: [2, 3] and [3, 2]')).toBe('形状：[2, 3] 与 [3, 2]');
  });

  it('stays as it was written where it is unknown', () => {
    for (const note of ['', 'constructor', `${notes[0]!} `]) expect(notedZh(note)).toBe(note);
  });
});

describe('the rule behind a merged value in Chinese', () => {
  // tests/builder/merge/test_reported.py holds this list against what the builder writes.
  const reasons = JSON.parse(readFileSync('test/i18n/reasons.json', 'utf8')) as string[];
  const named = /token|ColumnParallelLinear|Widen|MaskP/g;

  it.each(reasons)('leaves nothing in English of: %s', (reason) => {
    expect(reasonZh(reason)).not.toBe(reason);
    expect(english(reasonZh(reason).replaceAll(named, ''))).toEqual([]);
  });

  it('says which rank differs', () => {
    expect(apartZh('rank 1 has max 14, min 3, mean 8.5, norm 31.78, rank 1 is off')).toBe(
      'rank 1 为 最大值 14, 最小值 3, 均值 8.5, 范数 31.78，rank 1 有误',
    );
    expect(
      apartZh(
        'the part of rank 3 is not what the reference has there (1.05 times): max 1, min -1, mean 0, norm 3',
      ),
    ).toBe('rank 3 的部分与标杆此处不同（1.05 倍）：最大值 1, 最小值 -1, 均值 0, 范数 3');
    expect(apartZh('the stage of rank 2 has max 1, min -1, mean 0, norm nan')).toBe(
      'rank 2 所在阶段为 最大值 1, 最小值 -1, 均值 0, 范数 nan',
    );
  });

  it('stays as it was written where a part of it is unknown', () => {
    for (const text of ['', 'a later reason', `${reasons[0]!}, and more`, 'rank 1 has nothing']) {
      expect(reasonZh(text)).toBe(text);
      expect(apartZh(text)).toBe(text);
    }
  });
});
