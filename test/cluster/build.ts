import { apiServerPrograms, buildPrograms, clusterPrograms, suitePrograms } from './harness/programs.ts';

/** Builds all programs, or those for one purpose, so that what needs them later starts at once. */
const purposes = new Map([
  ['api-server', apiServerPrograms],
  ['cluster', clusterPrograms],
  ['all', [...clusterPrograms, ...suitePrograms]],
]);
const programs = purposes.get(process.argv[2] ?? 'all');
if (programs === undefined) throw new Error(`usage: build.ts [${[...purposes.keys()].join('|')}]`);
console.log(await buildPrograms(programs));
