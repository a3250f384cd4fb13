import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stepNames } from '../../src/volume/step.ts';
import { describeKills } from './kills.ts';
import { operations } from './operations/all.ts';
import { openings } from './operations/openings.ts';

test('T04: every step is passed by an operation that is interrupted at it', () => {
  const covered = new Set([...operations, ...openings].flatMap(({ steps }) => steps));
  assert.deepEqual([...covered].sort(), [...stepNames].sort());
});

// The whole table is in steps.test.ts.
describeKills('T01 T04 T05: kill -9 after every step, then replay', 'each step once');
