// What stands in many sentences of a verdict: how each is recognised, and its Chinese.

export const NAME = '(\\S{1,500}?)'; // of a tensor or a node; has no space
export const NAMES = '(\\S{1,500}?(?:, \\S{1,500}?){0,5}(?: and \\d+ more)?)';
const END = '(?= |$)';

export type Told = readonly [pattern: RegExp, chinese: (...parts: string[]) => string];

export function told(pattern: string, chinese: (...parts: string[]) => string): Told {
  return [new RegExp(pattern + END, 'y'), chinese];
}

const STATISTICS: Readonly<Record<string, string>> = {
  max: '最大值',
  min: '最小值',
  mean: '均值',
  norm: '范数',
};

/** How a tensor differs: what stands in many sentences, and its Chinese behind the tensor's name. */
export const DIFFERENCE =
  '(holds NaN or infinity, that of the reference does not' +
  '|is finite, that of the reference holds NaN or infinity' +
  '|has [-+.\\w]+ times the norm of the reference' +
  '|has (?:max|min|mean|norm) [-+.\\w]+ instead of [-+.\\w]+' +
  '|has another checksum' +
  '|differs)';

export function difference(text: string): string {
  if (text.startsWith('holds')) return '含有 NaN 或无穷值，而标杆没有';
  if (text.startsWith('is finite')) return '为有限值，而标杆含有 NaN 或无穷值';
  if (text === 'has another checksum') return '的校验和与标杆不同';
  const times = /^has (\S+) times/.exec(text);
  if (times) return `的范数是标杆的 ${times[1]} 倍`;
  const instead = /^has (\S+) (\S+) instead of (\S+)$/.exec(text);
  if (instead) return `的${STATISTICS[instead[1]!]}为 ${instead[2]}，标杆为 ${instead[3]}`;
  return '与标杆不同';
}

export function names(text: string): string {
  return text.replaceAll(', ', '、').replace(/ and (\d+) more$/, ' 等，另有 $1 个');
}

export function side(text: string): string {
  return text.toLowerCase() === 'this run' ? '本次运行' : '标杆';
}

export function ranks(text: string): string {
  return text.replaceAll(', ', '、');
}

export const VALUES = '(max \\S+, min \\S+, mean \\S+, norm \\S+?)';

export function ofRank(note: string): string {
  return note === 'the same elements in another order'
    ? '元素相同、次序不同'
    : note.replace(/^(\S+) times$/, '$1 倍');
}

export function values(text: string): string {
  return text.replaceAll(/(max|min|mean|norm) /g, (_, name: string) => `${STATISTICS[name]} `);
}
