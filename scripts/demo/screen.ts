import { styleText } from 'node:util';

const isTerminal = process.stdout.isTTY === true && process.stdout.hasColors();
const titleWidth = 12;
const detailWidth = 62;

function paint(style: Parameters<typeof styleText>[0], text: string): string {
  return isTerminal ? styleText(style, text) : text;
}

/** What the demo shows: a line for each step, with what came of it and how long it took. */
export const screen = {
  heading(title: string, lines: readonly string[]): void {
    console.log(`\n${paint('bold', title)}`);
    for (const line of lines) console.log(paint('dim', line));
    console.log('');
  },

  /** Runs a step and shows what it says of itself. */
  async step(title: string, work: () => Promise<string>): Promise<void> {
    if (isTerminal) process.stdout.write(paint('dim', `  … ${title}`));
    const startedMs = performance.now();
    try {
      const detail = await work();
      const elapsed = `${(performance.now() - startedMs).toFixed(1)} ms`.padStart(11);
      showStep(paint('green', isTerminal ? '✓' : 'ok'), title, `${detail.padEnd(detailWidth)}${paint('dim', elapsed)}`);
    } catch (error) {
      showStep(paint('red', isTerminal ? '✗' : 'FAILED'), title, '');
      throw error;
    }
  },

  block(text: string): void {
    console.log('');
    for (const line of text.trimEnd().split('\n')) console.log(`    ${paint('cyan', line)}`);
    console.log('');
  },

  closing(text: string): void {
    console.log(`\n${paint('bold', text)}\n`);
  },

  failure(text: string): void {
    console.error(`\n${paint('red', text)}`);
  },
};

function showStep(mark: string, title: string, rest: string): void {
  const start = isTerminal ? '\r\u001b[K' : '';
  console.log(`${start}  ${mark} ${paint('bold', title.padEnd(titleWidth))}${rest}`.trimEnd());
}
