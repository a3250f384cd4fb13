import { after, describe, test } from 'node:test';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';
import { image, liveAndDie } from './life-and-death.ts';

/* A call of a program goes on when the driver dies. */

const directory = new ProgramDirectory();
after(() => directory[Symbol.dispose]());

describe('a driver that is killed while a program runs', () => {
  for (const verb of ['attach', 'mount', 'unmount']) {
    test(`${verb}: the next one waits for it, and leaves nothing`, () => {
      using scratch = new Scratch('killed');
      const pid = scratch.join('pid');
      const kill = `{ kill -9 "$(cat ${pid})"; rm ${pid}; sleep 1; }`;
      const text = `[ "$1" != ${verb} ] || [ ! -e ${pid} ] || ${kill}\nexec ${directory.example('loop')} "$@"`;
      const path = directory.script(`killer-${verb}`, text);
      liveAndDie(scratch, { path }, { 'options.image': image(scratch) }, undefined);
    });
  }
});
