import { fileURLToPath } from 'node:url';
import { buildBundle } from '../../scripts/build.ts';
import { testBundle } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';

const stepTrace = fileURLToPath(new URL('./step-trace.ts', import.meta.url));

/** How to start the driver as it is shipped: it starts twice as fast as its sources, and here it starts hundreds of times. */
export interface DriverCommand extends Disposable {
  readonly plain: readonly string[];
  /** Keeps what V8 compiled of the bundle: a tenth of a start. */
  readonly environment: Readonly<Record<string, string>>;
  /** The same driver, which writes down every step it passes: see step-trace.ts. */
  readonly traced: readonly string[];
}

/** Takes the bundle that is there for all tests, or builds one for as long as it is needed. */
export async function buildDriver(): Promise<DriverCommand> {
  const directory = new Scratch('crash-bundle');
  try {
    const file = testBundle ?? (await buildBundle(directory.path)).file;
    return {
      environment: { NODE_COMPILE_CACHE: directory.join('compiled') },
      plain: [process.execPath, file],
      traced: [process.execPath, '--import', stepTrace, file],
      [Symbol.dispose]: () => directory[Symbol.dispose](),
    };
  } catch (error) {
    directory[Symbol.dispose]();
    throw error;
  }
}
