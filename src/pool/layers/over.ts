/** The same object but for some of its members. Its own methods go on calling each other, not these. */
export function over<T extends object>(inner: T, members: { readonly [Name in keyof T]?: T[Name] | undefined }): T {
  return new Proxy(inner, {
    get(target, name) {
      const from = name in members ? members : target;
      const value: unknown = Reflect.get(from, name, from);
      return typeof value === 'function' ? value.bind(from) : value;
    },
  });
}
