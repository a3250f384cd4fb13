import { accessSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import { Scratch } from '../../support/scratch.ts';

const executablePath = '/usr/bin/chromium';

/** A headless Chromium. Without one the tests fail: a page that no browser has seen is not tried. */
export class TestBrowser implements AsyncDisposable {
  readonly #scratch: Scratch;
  readonly #browser: Browser;

  private constructor(scratch: Scratch, browser: Browser) {
    this.#scratch = scratch;
    this.#browser = browser;
  }

  static async start(): Promise<TestBrowser> {
    try {
      accessSync(executablePath);
    } catch {
      throw new Error(`there is no ${executablePath}: bash scripts/setup-browser.sh installs it (Debian's chromium)`);
    }
    const scratch = new Scratch('browser');
    const browser = await chromium.launch({
      executablePath,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
      env: { PATH: process.env['PATH'] ?? '', HOME: scratch.path, TMPDIR: scratch.path },
    });
    return new TestBrowser(scratch, browser);
  }

  /** A page in a context of its own; what it complains of is kept. */
  async open(options: { width?: number; height?: number; dark?: boolean } = {}): Promise<SeenPage> {
    const { dark = false, height = 900, width = 1280 } = options;
    const context = await this.#browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
      timezoneId: 'UTC',
      locale: 'en-GB',
    });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    const complaints: string[] = [];
    const requests: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => requests.push(request.url()));
    return { page, complaints, requests };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    await this.#browser.close();
  }
}

export interface SeenPage {
  readonly page: Page;
  /** Errors in the console, among them what the Content-Security-Policy has refused. */
  readonly complaints: string[];
  readonly requests: string[];
}
