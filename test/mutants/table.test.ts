import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { documentPath, readOutcomes, renderTable } from './document.ts';
import { mutate } from './mutant.ts';
import { mutants } from './table.ts';

const project = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

describe('the mutants', () => {
  for (const mutant of mutants) {
    test(`${mutant.name}: its text is in the source, once`, () => {
      const source = readFileSync(project(mutant.file), 'utf8');
      assert.notEqual(mutate(source, mutant), source);
      assert.ok(existsSync(project(mutant.killer)), mutant.killer);
      assert.doesNotMatch(mutant.name, /\|/);
    });
  }

  test('each has a name of its own', () => {
    assert.equal(new Set(mutants.map(({ name }) => name)).size, mutants.length);
  });

  test('a text that is not there, or twice, is an error', () => {
    const [mutant = assert.fail()] = mutants;
    assert.throws(() => mutate('', mutant), /0 times/);
    assert.throws(() => mutate(mutant.text + mutant.text, mutant), /2 times/);
  });

  test(`${documentPath} has them all, and none that survived`, () => {
    const document = readFileSync(project(documentPath), 'utf8');
    const outcomes = readOutcomes(document);
    assert.equal(renderTable(mutants, outcomes), document, 'npm run test:mutants -- NAME writes what is missing');
    assert.deepEqual(
      [...outcomes].filter(([, outcome]) => outcome === 'SURVIVED' || outcome === 'no test'),
      [],
    );
  });
});
