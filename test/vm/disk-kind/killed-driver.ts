/**
 * Does one operation on a pool of a disk, and dies where it is told to, as from kill -9. Without a point it prints how often
 * it has passed each step.
 * node killed-driver.ts DEVICE DATA OPERATION NAME [before|after STEP PASS]
 */
import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { armCrashPoint, type StepName, stepNames } from '../../../src/volume/step.ts';
import { openTestDisk } from '../../support/disk-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { adoptionOperations } from './adoption-operations.ts';
import { operations } from './operations.ts';

const [, , device = '', dataDirectory = '', operationName = '', name = '', when, stepName, pass = '1'] = process.argv;

function isStep(text: string | undefined): text is StepName {
  return stepNames.some((each) => each === text);
}

const patienceMs = 300_000;
const passed: string[] = [];
channel('holdfast:step').subscribe((step) => passed.push(String(step)));
if ((when === 'before' || when === 'after') && isStep(stepName))
  armCrashPoint({ when, step: stepName, pass: Number(pass) });
const adoption = adoptionOperations({ path: device, dataDirectory })[operationName];
const options = { dataDirectory, adopt: adoption !== undefined };
const pool = await openTestDisk({ join: () => dataDirectory }, device, options);
/** None: the pool is opened, and that is all. */
const operation = adoption ?? operations[operationName];
await operation?.run(pool, name);
// What is wiped behind the answer is not waited for by a pool that is closed.
if (adoption === undefined)
  await eventually(async () => {
    const { capacity, trash, volumes } = await pool.usage();
    assert.ok(volumes.length + trash.volumes > 0 || capacity.availableBytes > 0n);
  }, patienceMs);
await pool.close();
console.log(JSON.stringify(passed));
