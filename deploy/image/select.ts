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
import { dirname, join, posix, relative } from 'node:path';
import { directories, libraries, plainFiles, programs } from './contents.ts';
import type { DebianPackage } from './debian.ts';
import { linkageOf } from './elf.ts';

const programDirectories = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'];
/** Debian's merged /usr: packages of this release still bring some files beside it. */
const mergedDirectories = ['bin', 'lib', 'lib64', 'sbin'];

/** What is taken, for the image, from a tree of unpacked packages. */
export class Selection {
  readonly #from: string;
  readonly #to: string;
  /** Where libraries are looked for, as the loader does. */
  readonly #libraryDirectories: readonly string[];
  readonly #copied = new Set<string>();

  constructor(from: string, to: string, triplet: string) {
    this.#from = from;
    this.#to = to;
    this.#libraryDirectories = [`/lib/${triplet}`, `/usr/lib/${triplet}`, '/lib', '/usr/lib'];
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
    for (const name of Object.values(programs).flat()) this.#take(this.#locate(name));
    for (const name of libraries) this.#take(this.#library(name));
  }

  /** The shared libraries that a file is linked with, and those that these are linked with, and the loader. */
  takeLibrariesOf(file: string): void {
    const linkage = linkageOf(file);
    if (linkage === undefined) return;
    for (const name of linkage.libraries) this.#take(this.#library(name));
    if (linkage.interpreter !== undefined) this.#take(linkage.interpreter);
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

  /** The path of a library. */
  #library(name: string): string {
    const places = this.#libraryDirectories.map((directory) => join(directory, name));
    const place = places.find((path) => lstatSync(join(this.#from, path), { throwIfNoEntry: false }) !== undefined);
    if (place === undefined) throw new Error(`the library ${name} is in none of the packages of contents.ts`);
    return place;
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
      this.takeLibrariesOf(source);
      return;
    }
    const real = this.#realPath(path);
    symlinkSync(relative(dirname(merged(path)), merged(real)), target);
    this.#take(real);
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
