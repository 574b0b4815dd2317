// test_headers.cpp - nothing: a program wants a source, and this one is made for its precompiled headers.
int main() {
    return 0;
}
