declare const htm: { bind(h: (...all: any[]) => any): (strings: TemplateStringsArray, ...values: any[]) => any };
export default htm;
