/**
 * Has the snapshots of a volume follow it to another thin pool, or gives that up, and dies at a step, as from kill -9.
 * node killed-mover.ts DATA GROUP GROUP move|cancel POOL before|after STEP PASS
 */
import assert from 'node:assert/strict';
import { armCrashPoint, type CrashPoint } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { MovingNode, moved } from './moving-node.ts';

const [, , data = '', first = '', second = '', order, to = '', when, step, pass] = process.argv;
await using node = await MovingNode.open(data, [first, second]);
await node.mover.resume();
armCrashPoint({ when, step, pass: Number(pass) } as CrashPoint);
// So slow that it is given up while it is copied.
await node.mover.start(moved.id, to, order === 'cancel' ? 1n << 18n : undefined, true);
if (order === 'cancel') {
  await eventually(() => assert.ok((node.sight()?.snapshots?.progress?.totalBytes ?? 0n) > 0n));
  await node.mover.cancel(moved.id);
} else await node.ended();
