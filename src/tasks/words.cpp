// words.cpp - the word lists; see words.h.
#include "tasks/words.h"

namespace pith::corpus::words {
namespace {

constexpr std::string_view kAdjectiveWords[] = {
    "bold", "brave",  "bright", "calm",  "clean", "clear", "cold",  "dark",  "deep",  "dry",   "fair",  "fast",
    "fine", "flat",   "fresh",  "glad",  "grand", "great", "happy", "hard",  "kind",  "late",  "light", "long",
    "loud", "neat",   "plain",  "proud", "quick", "quiet", "rare",  "round", "sharp", "short", "slow",  "small",
    "soft", "strong", "sweet",  "tall",  "thin",  "warm",  "wide",  "wild",  "wise",  "young"};
// The first 20 are kThings.
constexpr std::string_view kKeyNounWords[] = {
    "bell",  "book", "box",   "chair", "clock", "coat",  "cup",   "drum",  "flag",  "hat",  "key",  "lamp",
    "map",   "ring", "rope",  "sack",  "stone", "table", "wheel", "chest", "ant",   "bear", "boat", "bread",
    "cloud", "corn", "crown", "fish",  "fox",   "gate",  "glass", "leaf",  "lion",  "moon", "nest", "pear",
    "plum",  "rose", "sand",  "ship",  "snow",  "star",  "tiger", "tower", "whale", "wolf"};
constexpr std::string_view kNameWords[] = {"Anna",  "Ben",  "Clara", "David", "Emma",  "Frank", "Grace",
                                           "Henry", "Ivan", "Jane",  "Karl",  "Laura", "Mark",  "Nina",
                                           "Paul",  "Rosa", "Sam",   "Tom",   "Vera",  "Will"};
constexpr std::string_view kTownWords[] = {"Boston", "Dover", "Geneva", "London", "Malta", "Milan",
                                           "Oslo",   "Paris", "Rome",   "Salem",  "Turin", "Vienna"};
constexpr std::string_view kRoomWords[] = {"attic",   "barn",   "cellar", "garden", "hall",
                                           "kitchen", "market", "school", "shop",   "stable"};
constexpr std::string_view kColourWords[] = {"red", "blue", "green", "yellow", "black", "white", "brown", "grey"};
constexpr std::string_view kJobWords[] = {"baker",   "doctor", "farmer", "guard",   "miller",
                                          "painter", "sailor", "singer", "teacher", "writer"};
constexpr std::string_view kAnimalWords[] = {"cat", "dog", "horse", "goat", "sheep", "duck", "hen", "pig"};
constexpr std::string_view kActorWords[] = {"man", "woman", "child", "king", "bird", "old man", "crowd", "stranger"};
constexpr std::string_view kVerbWords[] = {"walked", "waited", "slept", "sang", "looked", "rested", "moved", "turned"};
constexpr std::string_view kPlaceWords[] = {"by the river",   "near the hill",    "under the tree", "over the bridge",
                                            "along the road", "across the field", "by the sea",     "behind the wall"};
constexpr std::string_view kTimeWords[] = {"In the morning", "In the evening", "At night",      "Every day",
                                           "After the rain", "One day",        "In the winter", "For a while"};
constexpr std::string_view kCloserWords[] = {"It was late.", "The night was dark.", "The day was long.", "The road was dry."};

}  // namespace

const List kAdjectives = kAdjectiveWords;
const List kKeyNouns = kKeyNounWords;
const List kThings = List(kKeyNounWords).first(20);
const List kNames = kNameWords;
const List kTowns = kTownWords;
const List kRooms = kRoomWords;
const List kColours = kColourWords;
const List kJobs = kJobWords;
const List kAnimals = kAnimalWords;
const List kActors = kActorWords;
const List kVerbs = kVerbWords;
const List kPlaces = kPlaceWords;
const List kTimes = kTimeWords;
const List kClosers = kCloserWords;

const std::vector<std::string_view> & single_words() {
    static const std::vector<std::string_view> all = [] {
        std::vector<std::string_view> words;
        // From the arrays, not the spans: those may not be initialised yet when another static asks.
        for (const List list : {List(kAdjectiveWords), List(kKeyNounWords).first(20), List(kRoomWords), List(kColourWords),
                                List(kJobWords), List(kAnimalWords), List(kVerbWords)}) {
            words.insert(words.end(), list.begin(), list.end());
        }
        return words;
    }();
    return all;
}

}  // namespace pith::corpus::words
