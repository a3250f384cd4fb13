/**
 * Moves a volume between images and disks, and dies where it is told to, as from kill -9. Without a point it prints the steps.
 * node killed-disk-mover.ts DIRECTORY ID POOL [before|after STEP PASS]
 */
import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { parseVolumeId } from '../../src/volume/id.ts';
import { armCrashPoint, moveStepNames, type StepName, stepNames } from '../../src/volume/step.ts';
import { openKilledNode } from './killed-disks.ts';

const [, , directory = '', idText = '', to = '', when, stepName, pass = '1'] = process.argv;
const id = parseVolumeId(idText) ?? assert.fail(idText);

function isStep(text: string | undefined): text is StepName {
  return [...stepNames, ...moveStepNames].some((each) => each === text);
}

const node = await openKilledNode(directory);
const passed: string[] = [];
channel('holdfast:step').subscribe((step) => passed.push(String(step)));
if ((when === 'before' || when === 'after') && isStep(stepName)) {
  armCrashPoint({ when, step: stepName, pass: Number(pass) });
}
await node.move(id, to);
await node[Symbol.asyncDispose]();
console.log(JSON.stringify(passed));
