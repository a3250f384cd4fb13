import { apiServerPrograms, buildPrograms } from '../cluster/harness/programs.ts';
import { Helm } from './helm.ts';

/** What the tests here need of Kubernetes and helm. It takes long the first time, and no test's time runs meanwhile. */
await buildPrograms(apiServerPrograms);
await Helm.build();
