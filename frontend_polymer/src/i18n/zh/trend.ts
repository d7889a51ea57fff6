import type { Texts } from '../en';

/** 趋势页面的文字。 */
export const trendZh: Texts['trend'] = {
  title: '趋势',
  open: '多步趋势',
  none: '日志目录下没有以 .trend.db 结尾的文件。先生成一个，再重新查找：',
  file: '训练',
  other: '减去',
  noOther: '无',
  statistic: '统计量',
  kind: '种类',
  allKinds: '全部',
  filter: '名称包含',
  order: '排序',
  orders: { moves: '变化最大者在前', model: '按模型顺序' },
  fixed: '固定',
  fixedBy: { rank: 'Rank', step: 'Step', target: '张量' },
  at: '取值',
  range: 'Step 范围',
  reset: '全部 step',
  rows: (count) => `${count} 行`,
  map: '热力图：行与列；方向键移动，Enter 查找对应的图',
  hint: '颜色：数值偏离本行中位数的程度；圆点标出离群值。Ctrl + 滚轮缩放 step，Shift + 滚轮左右移动，单击显示数值和曲线。',
  hintDifference:
    '颜色：相对差异的数量级；圆点标出超过 1 % 的差异。Ctrl + 滚轮缩放 step，Shift + 滚轮左右移动，单击显示数值和曲线。',
  value: (name, step, rank, value) => `${name}，step ${step}，rank ${rank}：${value}`,
  nothing: '没有记录',
  graphs: '查看该 step 和 rank 的图',
  noGraph: '日志目录下没有包含该 step 和 rank 的 .vis.db 文件。',
  gone: (name) => `链接所指的 ${name} 不在日志目录下。`,
};
