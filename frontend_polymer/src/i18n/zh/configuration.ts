import type { Texts } from '../en';

export const configurationZh: Texts['configuration'] = {
  title: '两次运行的配置',
  outcomes: { pass: '可以比对', warning: '请先核对', error: '暂勿比对' },
  said: {
    pass: '采集到的内容均不妨碍比对这两次运行。',
    warning: '在相信比对结果之前，请先核对下列差异。',
    error: '两次运行的配置不同。请先消除这些差异：下面的结果可能只是它们造成的后果。',
  },
  alike: (parts) => `一致：${parts}。`,
  unknown: (parts) => `无法判断（没有两份文件都包含）：${parts}。`,
  parts: {
    env: '环境变量',
    pip: '软件包',
    hyperparameters: '参数选项',
    dataset: '数据',
    weights: '权重',
    random: '随机调用',
  },
  part: '部分',
  name: '名称',
  levels: { error: '错误', warning: '警告' },
  absent: '无',
  all: (count) => `显示全部 ${count} 项`,
  more: (count) => `另有 ${count} 处差异未在此显示；msprobe-build config compare 会全部写出。`,
};
