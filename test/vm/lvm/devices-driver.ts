/**
 * Opens a pool whose volume group is made of disks, makes a volume if there is none, and dies where it is told to, as from
 * kill -9. Without a point it prints how often it has passed each step.
 * node devices-driver.ts DATA DISK,DISK… [before|after STEP PASS]
 */
import { channel } from 'node:diagnostics_channel';
import { armCrashPoint, type StepName, stepNames } from '../../../src/volume/step.ts';
import { openOwnGroup, preciousSpec } from './devices-pool.ts';

const [, , dataDirectory = '', devices = '', when, stepName, pass = '1'] = process.argv;

function isStep(text: string | undefined): text is StepName {
  return stepNames.some((each) => each === text);
}

const passed: string[] = [];
channel('holdfast:step').subscribe((step) => passed.push(String(step)));
if ((when === 'before' || when === 'after') && isStep(stepName)) {
  armCrashPoint({ when, step: stepName, pass: Number(pass) });
}
const pool = await openOwnGroup(dataDirectory, devices.split(','));
if ((await pool.find(preciousSpec.id)) === undefined) await pool.create(preciousSpec);
await pool.close();
console.log(JSON.stringify(passed.filter((step) => step.startsWith('open/'))));
