// Command apilist writes docs/api.txt: each exported declaration of each package that users import, one a line, sorted.
//
// Its test compares that file with the sources, so that a change of the API is a change of a file that review sees. It reads syntax alone:
// a method that a type has by embedding stands as the embedded field.
package main
