import { describe, test } from 'node:test';
import { cutAtAnswersInGroups } from '../answered/in-groups.ts';

describe('T06: the power goes at the moment of an answer, in thin pools', () => {
  test('what was answered is there, though the disk kept only what it was told to', (t) =>
    cutAtAnswersInGroups(t, { keys: 'thinPool: { size: 512Mi }, ' }));
});
