/**
 * Does one operation on a pool in a volume group, and dies where it is told to, as from kill -9. Without a point it prints
 * the steps that it has passed.
 * node killed-driver.ts linear|thin|encrypted GROUP DATA OPERATION NAME [before|after STEP]
 */
import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import {
  armCrashPoint,
  encryptionStepNames,
  instantStepNames,
  metadataStepNames,
  type StepName,
  stepNames,
} from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { lvm } from '../../support/lvm-pool.ts';
import { encryptedOperations } from '../luks/encrypted-operations.ts';
import { adoptionOperations } from './adoption-operations.ts';
import { thinOperations } from './changes-operation.ts';
import { inUseOperations } from './in-use-operations.ts';
import { operations } from './operations.ts';
import { isSort, openOfSort } from './sort.ts';

const [, , sort, volumeGroup = '', dataDirectory = '', operationName = '', name = '', when, stepName] = process.argv;

function isStep(text: string | undefined): text is StepName {
  const names = [...stepNames, ...encryptionStepNames, ...instantStepNames, ...metadataStepNames];
  return names.some((each) => each === text);
}

/** A disk that has to write all the zeros, on a busy machine. */
const patienceMs = 300_000;
const passed = new Set<string>();
channel('holdfast:step').subscribe((step) => passed.add(String(step)));
if ((when === 'before' || when === 'after') && isStep(stepName)) armCrashPoint({ when, step: stepName });
assert.ok(isSort(sort));
const pool = await openOfSort(sort, volumeGroup, dataDirectory);
const all = {
  ...{ ...operations, ...encryptedOperations, ...adoptionOperations },
  ...{ ...thinOperations, ...inUseOperations },
};
/** None: the pool is opened, and that is all. */
const operation = all[operationName];
await operation?.run(pool, name);
// What is wiped behind the answer is not waited for by a pool that is closed.
await eventually(
  () => assert.doesNotMatch(lvm('lvs', '--noheadings', '-o', 'lv_tags', volumeGroup), /holdfast.removed/),
  patienceMs,
);
await pool.close();
console.log(JSON.stringify([...passed]));
