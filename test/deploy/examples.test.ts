import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { exampleFiles, levels, podsOf } from './examples.ts';

describe('deploy/examples', () => {
  test('has pods in most of its files', () => {
    assert.ok(exampleFiles.flatMap(podsOf).length >= 9);
  });

  for (const name of exampleFiles) {
    const pods = podsOf(name);
    if (pods.length === 0) continue;
    const level = levels.restricted.includes(name) ? 'restricted' : 'baseline';
    test(`${name} gives its pods no more than ${level} pods have`, () => {
      for (const { spec } of pods) {
        assert.equal(spec.securityContext?.seccompProfile?.type, 'RuntimeDefault');
        assert.equal(spec.securityContext?.runAsNonRoot, level === 'restricted' ? true : undefined);
        for (const { securityContext } of spec.containers) {
          assert.equal(securityContext?.allowPrivilegeEscalation, false);
          assert.deepEqual(securityContext?.capabilities?.drop, ['ALL']);
        }
      }
    });
  }
});
