// The model that judges for a shield, in the form: one field for each thing that its llm says.

import { t } from '../messages.js';

/** Where a call may be judged. */
export const stages = ['input.pre', 'retrieval.pre', 'retrieval.post', 'tool.pre', 'tool.post', 'output.pre'];
const failModes = ['closed', 'open'];
/** What is in force where nothing is said, as the server has it. */
const threshold = 0.7;

/** The fields. @param {any[]} models the project's for texts @param {any} [llm] of the shield @returns {Record<string, import('../components/form.js').Field>} */
export function judgeFields(models, llm) {
  const gone = llm?.modelKey && !models.some((one) => one.key === llm.modelKey) ? [{ key: llm.modelKey, name: llm.modelKey }] : [];
  const all = [...models, ...gone];
  return {
    judge: { title: t('shields.judge'), description: t('shields.judge.about'), type: 'boolean' },
    judgeModel: { title: t('shields.judge.model'), description: t('shields.judge.model.about'), enum: all.map((one) => one.key), names: all.map((one) => one.name || one.key) },
    ...Object.fromEntries(stages.map((stage) => [`judge-${stage}`, { title: t('shields.judge.at', { stage }), type: 'boolean' }])),
    judgeThreshold: { title: t('shields.judge.threshold'), description: t('shields.judge.threshold.about'), type: 'number', minimum: 0, maximum: 1 },
    judgeFailMode: { title: t('shields.judge.failMode'), enum: failModes, names: failModes.map((mode) => t(`shields.judge.failMode.${mode}`)) },
    judgeOnlyHighRisk: { title: t('shields.judge.onlyHighRisk'), description: t('shields.judge.onlyHighRisk.about'), type: 'boolean' },
  };
}

/** What the form shows of a shield's llm. @param {any} [llm] */
export function judgeShown(llm) {
  const judge = llm?.judge || {};
  return {
    judge: Boolean(judge.enabled), judgeModel: llm?.modelKey, judgeThreshold: judge.threshold ?? threshold, judgeFailMode: judge.failMode || 'closed',
    judgeOnlyHighRisk: Boolean(judge.onlyHighRisk), ...Object.fromEntries(stages.map((stage) => [`judge-${stage}`, Boolean(judge.stages?.includes(stage))])),
  };
}

/** The shield of a form's value: its llm is null where there is neither a model nor a judge. @param {any} form */
export function withJudge(form) {
  const said = Object.fromEntries(Object.entries(form).filter(([name]) => !name.startsWith('judge')));
  const llm = {
    ...(form.judgeModel && { modelKey: form.judgeModel }),
    judge: {
      enabled: Boolean(form.judge), stages: stages.filter((stage) => form[`judge-${stage}`]), failMode: form.judgeFailMode || 'closed',
      threshold: form.judgeThreshold ?? threshold, onlyHighRisk: Boolean(form.judgeOnlyHighRisk),
    },
  };
  return { ...said, llm: form.judge || form.judgeModel ? llm : null };
}
