/*
 * Preloaded into a driver (node --import) that is to tell which steps it passes: one line for each in the file that
 * STEP_TRACE names.
 */
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';

const file = process.env['STEP_TRACE'];
if (file === undefined) throw new Error('STEP_TRACE names the file that the steps are written to');

subscribe('holdfast:step', (name) => appendFileSync(file, `${name}\n`));
