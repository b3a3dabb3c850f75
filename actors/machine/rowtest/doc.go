// Package rowtest is what the tests of the machines share: a store in memory that is stricter than the real one, files that
// pin the format of rows, and the rules that every codec of rows keeps. Only tests import it; no product code does.
package rowtest
