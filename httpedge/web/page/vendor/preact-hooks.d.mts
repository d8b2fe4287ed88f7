export * from '../../../../cmd/parley/testdata/page/node_modules/preact/hooks/src/index.d.ts';
