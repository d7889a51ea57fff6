// What is said of numbers that another precision explains, in Chinese.

import { told, type Told } from './told-words';

const PRODUCTS: Readonly<Record<string, string>> = {
  convolutions: '卷积',
  'recurrent layers': '循环层',
  'matrix products': '矩阵乘积',
};

/** Products of fewer digits, and losses that are scaled. */
export const OF_PRECISION: readonly Told[] = [
  told(
    '(Convolutions|Recurrent layers|Matrix products)(?:(?:,| and) (recurrent layers|matrix products))?(?: and (matrix products))? differ as much as operands rounded to 10 or 11 bits explain \\(TF32, HF32\\); a smaller fault would not show behind them\\.',
    (...kinds) =>
      `${kinds
        .filter(Boolean)
        .map((kind) => PRODUCTS[kind.toLowerCase()])
        .join('、')}的差异可由操作数舍入到 10 或 11 位（TF32、HF32）解释；其后更小的错误无法显现。`,
  ),
  told(
    '(This run|The reference) multiplies its loss by ([\\d,]+) times what (?:the reference|this run) does, as float16 needs it; gradients are judged as if both had scaled alike\\.',
    (side, times) =>
      `${side === 'This run' ? '本次运行' : '标杆'}的损失缩放倍数是另一侧的 ${times} 倍（float16 所需）；梯度按两侧缩放相同来判断。`,
  ),
];
