import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, posix, relative } from 'node:path';
import { directories, libraries, plainFiles, programs } from './contents.ts';
import type { DebianPackage } from './debian.ts';
import { output } from './program.ts';

const programDirectories = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'];
/** Debian's merged /usr: packages of this release still bring some files beside it. */
const mergedDirectories = ['bin', 'lib', 'lib64', 'sbin'];

/** What is taken, for the image, from a tree of unpacked packages. */
export class Selection {
  readonly #from: string;
  readonly #to: string;
  readonly #copied = new Set<string>();

  constructor(from: string, to: string) {
    this.#from = from;
    this.#to = to;
    for (const name of mergedDirectories) {
      mkdirSync(join(to, 'usr', name), { recursive: true });
      symlinkSync(join('usr', name), join(to, name));
    }
    for (const directory of directories) mkdirSync(join(to, directory), { recursive: true });
    for (const name of ['tmp', 'var/tmp']) chmodSync(join(to, name), 0o1777);
    for (const [path, text] of Object.entries(plainFiles)) this.#write(path, text);
  }

  /** The programs of contents.ts and whatever they load. */
  takePrograms(): void {
    const places = Object.values(programs).flatMap((names) => names.map((name) => this.#locate(name)));
    const paths = [...places, ...libraries.map((name) => this.#libraryPath(name))];
    for (const path of paths) {
      this.#take(path);
      this.takeLibrariesOf(path);
    }
  }

  /** The shared libraries that a file of the tree is linked with, and the loader. Scripts have none. */
  takeLibrariesOf(path: string): void {
    const real = this.#realPath(path);
    if (this.#isElf(real)) for (const library of this.#linkedWith(real)) this.#take(library);
  }

  /** All certificate authorities in the one file that TLS libraries read, as update-ca-certificates(8) makes it. */
  takeCertificates(): void {
    const directory = '/usr/share/ca-certificates/mozilla';
    const paths = readdirSync(join(this.#from, directory))
      .sort()
      .map((name) => join(directory, name));
    this.#write('/etc/ssl/certs/ca-certificates.crt', paths.map((path) => this.#read(path)).join(''));
    for (const path of paths) this.#copied.add(path);
  }

  /** Licences, and a record for scanners, of each package that anything was taken from. */
  describePackages(packages: readonly DebianPackage[]): void {
    for (const { name, control, files } of packages) {
      if (!files.some((file) => this.#copied.has(file))) continue;
      this.#write(`/var/lib/dpkg/status.d/${name}`, control);
      const copyright = `/usr/share/doc/${name}/copyright`;
      this.#write(copyright, this.#read(this.#realPath(copyright)));
    }
  }

  /** The path of a program, wherever Debian has it. */
  #locate(name: string): string {
    const places = name.startsWith('/') ? [name] : programDirectories.map((directory) => join(directory, name));
    const place = places.find((path) => lstatSync(join(this.#from, path), { throwIfNoEntry: false }) !== undefined);
    if (place === undefined) throw new Error(`${name} is in none of the packages of contents.ts`);
    return place;
  }

  #libraryPath(name: string): string {
    const directory = dirname(
      this.#linkedWith(this.#locate('mount')).find((path) => basename(path) === 'libc.so.6') ?? '',
    );
    const places = [join(directory, name), join('/usr', directory, name)];
    const place = places.find((path) => lstatSync(join(this.#from, path), { throwIfNoEntry: false }) !== undefined);
    if (place === undefined) throw new Error(`${name} is in none of the packages of contents.ts`);
    return place;
  }

  /** What the tree's own loader would load for a program or library. */
  #linkedWith(path: string): string[] {
    const lines = output('chroot', [this.#from, this.#loader(), '--list', path]).split('\n');
    return lines.flatMap((line) => /(?:=> |^\s*)(\/\S+) \(0x/.exec(line)?.[1] ?? []);
  }

  #loader(): string {
    for (const directory of ['lib64', 'lib']) {
      const names = readdirSync(join(this.#from, directory)).filter((name) => name.startsWith('ld-linux-'));
      if (names[0] !== undefined) return `/${directory}/${names[0]}`;
    }
    throw new Error('libc6 brought no dynamic loader');
  }

  /** Follows a symlink inside the tree, whose absolute links mean the tree's own root. */
  #realPath(path: string): string {
    const status = lstatSync(join(this.#from, path));
    if (!status.isSymbolicLink()) return path;
    return this.#realPath(posix.resolve(dirname(path), readlinkSync(join(this.#from, path))));
  }

  #take(path: string): void {
    if (this.#copied.has(path)) return;
    this.#copied.add(path);
    const target = join(this.#to, merged(path));
    mkdirSync(dirname(target), { recursive: true });
    const source = join(this.#from, path);
    if (!lstatSync(source).isSymbolicLink()) {
      copyFileSync(source, target);
      // Whoever is in this container is root: nothing needs set-user-ID.
      chmodSync(target, lstatSync(source).mode & 0o755);
      return;
    }
    const real = this.#realPath(path);
    symlinkSync(relative(dirname(merged(path)), merged(real)), target);
    this.#take(real);
  }

  #isElf(path: string): boolean {
    return readFileSync(join(this.#from, path)).subarray(0, 4).toString('latin1') === '\x7fELF';
  }

  #read(path: string): string {
    return readFileSync(join(this.#from, path), 'utf8');
  }

  #write(path: string, text: string): void {
    const target = join(this.#to, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
}

function merged(path: string): string {
  return mergedDirectories.includes(path.split('/')[1] ?? '') ? join('/usr', path) : path;
}
