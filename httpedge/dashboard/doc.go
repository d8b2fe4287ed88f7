// Package dashboard is the surface by which people come in: register, sign in and out, change a password, choose a project. Its
// routes are those of document 3, section 5, below /api.
//
// Other surfaces for signed-in users are packages of their own, mounted below /api by login.Sessions.Protect (package login says
// how). This one holds no state: passwords are checked by a Hasher, attempts are counted by Attempts for the whole cluster, and who
// exists is in identity.Accounts.
//
// Nobody learns from an answer, from its time or from a limit whether an account exists: whoever does not, costs a hash and an
// attempt as well.
package dashboard
